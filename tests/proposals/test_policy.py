from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from threadkeep.errors import InvalidInputError, SettingsError
from threadkeep.memories.models import Kind, Speaker
from threadkeep.proposals.models import Policy, rules_of, spelled


class TestDefault:
    @pytest.mark.parametrize(
        ("kind", "speaker", "verdict"),
        [
            ("semantic", "user", "auto"),
            ("episodic", "user", "auto"),
            ("procedural", "user", "ask"),
            ("semantic", "import", "auto"),
            ("procedural", "import", "ask"),
            ("semantic", "assistant", "ask"),
            ("semantic", "tool", "ask"),
            ("semantic", "document", "ask"),
            ("procedural", "tool", "ask"),
            ("episodic", "assistant", "never"),
            ("episodic", "document", "never"),
        ],
    )
    def test_who_is_believed_about_what(self, kind: Kind, speaker: Speaker, verdict: str):
        """The user is; others are asked about; how to behave is always asked."""
        assert Policy().verdict(kind, speaker) == verdict


class TestRules:
    @pytest.mark.parametrize(
        ("rules", "kind", "speaker", "verdict"),
        [
            ("tool=never", "semantic", "tool", "never"),
            ("tool=never, tool.semantic=ask", "semantic", "tool", "ask"),
            ("semantic=ask", "semantic", "user", "ask"),
            ("semantic=auto, tool=ask", "semantic", "tool", "ask"),
            ("user=auto", "procedural", "user", "ask"),
            ("assistant=auto", "semantic", "assistant", "auto"),
            (" document = never ,", "semantic", "document", "never"),
            ("", "semantic", "user", "auto"),
        ],
    )
    def test_rule_is_followed(self, rules: str, kind: Kind, speaker: Speaker, verdict: str):
        """What names more is stronger; of equals, the stricter counts."""
        assert Policy(rules_of(rules)).verdict(kind, speaker) == verdict

    def test_owner_may_choose_but_for_what_is_never_kept(self):
        """An owner's rule counts first, unless the deployment never keeps such a statement."""
        policy = Policy(rules_of("tool=never"), rules_of("tool=auto, assistant=auto"))

        assert policy.verdict("semantic", "tool") == "never"
        assert policy.verdict("semantic", "assistant") == "auto"

    def test_how_to_behave_is_asked_whatever_the_rules_say(self):
        """No rule that can be written lets it pass."""
        for speaker, other in product(get_args(Speaker), get_args(Speaker)):
            policy = Policy(rules_of(f"{speaker}=auto"), rules_of(f"{other}=auto"))
            assert policy.verdict("procedural", speaker) != "auto"

    @pytest.mark.parametrize("rules", ["tool", "tool=maybe", "nobody=ask", "tool.odd=ask", "procedural=auto", "=ask"])
    def test_rule_that_says_nothing_is_refused(self, rules: str):
        """In a sentence that names it."""
        with pytest.raises(InvalidInputError):
            rules_of(rules)

    def test_rules_are_spelled_as_they_are_read(self):
        """Kept and shown, they stay the same."""
        rules = rules_of("tool.semantic=ask, user=never, procedural=never")

        assert rules_of(spelled(rules)) == rules

    def test_wrong_setting_stops_start_up(self):
        """With the variable in the sentence."""
        import threadkeep
        from threadkeep.settings import Settings

        with pytest.raises(SettingsError, match="THREADKEEP_MEMORY_POLICY"):
            threadkeep.open("memory://", settings=Settings.load(memory_policy="tool=perhaps"))
