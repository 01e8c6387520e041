"""Ask judges which references can be answered from their prompt."""
