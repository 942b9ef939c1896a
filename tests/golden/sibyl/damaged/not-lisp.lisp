{"id": "s1", "messages": []}
