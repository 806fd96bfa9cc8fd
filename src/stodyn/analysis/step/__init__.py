"""One step of a method: its matrix and moments, the noise it delivers, its stability and its order."""
