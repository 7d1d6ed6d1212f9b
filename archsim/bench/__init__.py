"""How fast archsim is on this machine: the engine, the kernels of the devices, whole runs, start-up and memory."""
