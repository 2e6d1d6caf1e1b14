"""Ask clouds about capacity, and buy it: the only code of k3fleet that spends money."""
