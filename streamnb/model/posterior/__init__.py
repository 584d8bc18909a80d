"""Posteriors over a finite set of hypotheses, conjugate posteriors, and credible intervals."""
