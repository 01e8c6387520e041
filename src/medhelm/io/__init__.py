"""Read and write files, spreadsheets and HTTP safely."""
