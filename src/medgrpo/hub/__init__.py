"""A finished run on the Hub: its model card, and the folder that is pushed and nothing beside it."""
