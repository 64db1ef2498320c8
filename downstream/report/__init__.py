"""What a comparison writes: tables, JSON and charts."""
