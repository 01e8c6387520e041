"""Write a benchmark's invented sample rows in the format of its real data."""
