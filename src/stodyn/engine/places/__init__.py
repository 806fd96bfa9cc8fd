"""Where the blocks of a run are computed: threads, processes, the workers of a cluster."""
