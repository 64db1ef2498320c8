"""`sahaj plan`: what a run will be like with the volunteers of a table."""
