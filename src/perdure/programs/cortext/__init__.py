"""Conversations that live in a workspace, in git."""
