"""A model that follows a running learner, and answers over HTTP; needs the extra `streamnb[web]`."""
