"""What tests of agents are written with."""
