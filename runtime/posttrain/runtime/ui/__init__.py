"""`recipe ui`: a local web server that shows the runs of homes while they proceed."""
