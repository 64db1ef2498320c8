"""The DHT: joining it, passes in its calls and records, and the records that peers sign."""
