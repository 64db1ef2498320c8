"""The public face of a run: pages in Streamlit that know the coordinator's HTTP API and nothing else of Sahaj."""
