"""What silicon costs by process: logic, SRAM and wires between nodes, each with its source and its error."""
