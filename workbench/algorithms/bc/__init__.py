"""Behaviour cloning (Pomerleau 1991): the policy imitates recorded episodes, a person's or another policy's."""
