"""What Streamlit has no element for: small programs in the browser, which load nothing from elsewhere."""
