(:repl-session (:session-version 1)
 :id "s1"
 :created-at "2026-01-31T09:05:00.123Z"
 :last-modified "2026-01-31T09:07:00.000Z"
 :message-count 4
 :command-count 0
 :summary nil
 :messages (
(:role :user :content "one" :timestamp "2026-01-31T09:05:01.000Z" :entry-id "m1" :parent-id nil)
(:role :assistant :content #.(run-program "two") :timestamp "2026-01-31T09:05:02.000Z" :entry-id "m2" :parent-id "m1")
(:role :user :content "three" :timestamp "2026-01-31T09:05:03.000Z" :entry-id "m3" :parent-id "m2")
(:role :assistant :content "four" :timestamp "2026-01-31T09:05:04.000Z" :entry-id "m4" :parent-id "m3")
 )
 :cwd "/home/me/code"
)
