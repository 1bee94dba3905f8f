"""What a sequence of a differential run is made of: two worlds, actors in them, and operations that they do."""
