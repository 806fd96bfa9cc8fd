"""The elements of netlists, one file each: how a line is read, its equations, its noise, its model's parameters."""
