"""How a run is computed: its step printed in a form for a target or taken by XLA, and the blocks that go through it."""
