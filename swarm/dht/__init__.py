"""The DHT: joining it, guarding it with passes, and the records that peers sign."""
