"""Roll a release out over a fleet, replica by replica: the part that only decides.

A rollout is a sequence of assignments (which release each replica should run).
`strategy` is the file that a team writes, `waves` cuts the fleet into steps, `timing`
says how long they take and what they cost, `mixing` says whether two releases may
serve side by side, `plan` puts it together.
"""
