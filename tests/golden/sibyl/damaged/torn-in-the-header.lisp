(:repl-session (:session-version 1)
 :id "s1"
 :created-at "2026-01-31