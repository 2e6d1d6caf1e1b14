"""Provision real fleets: plan, guard, apply and repair the stacks of every region."""
