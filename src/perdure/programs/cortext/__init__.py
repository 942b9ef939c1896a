"""cortext: conversations that live in a workspace, and in its git repository."""
