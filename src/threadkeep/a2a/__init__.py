"""The Agent2Agent protocol: other agents talk to the agent and use its memory, for the user of their token.

`card` describes the agent, `messages` reads what is asked, `executor` runs turns as tasks, `tasks` keeps and notifies,
and `mount` answers at `/a2a` of the gateway. What another agent says is never the user's word.
"""
