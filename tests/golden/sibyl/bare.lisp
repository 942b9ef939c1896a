(:repl-session :messages ((:role :user :content "one") (:role :assistant :content "two")))
