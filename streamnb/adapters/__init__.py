"""One outside thing behind one port each."""
