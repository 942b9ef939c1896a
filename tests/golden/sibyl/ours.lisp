(:repl-session (:session-version 1)
 :id "s1"
 :created-at "2026-01-31T09:05:00.123Z"
 :last-modified "2026-01-31T09:07:00.000Z"
 :message-count 4
 :command-count 2
 :summary "They greeted."
 :messages (
(:role :user :content "one" :timestamp "2026-01-31T09:05:01.000Z" :entry-id "m1" :parent-id nil)
(:role :assistant :content "two" :timestamp "2026-01-31T09:05:02.000Z" :tool-calls ((:id "tc_1" :name "bash" :arguments (("command" . "ls -l \"x\"") ("n" . 5) ("share" . 0.5d0) ("deep" :json "{\"a\":[true,null]}")))) :entry-id "m2" :parent-id "m1" :message (:json "{\"stopReason\":\"toolUse\"}"))
(:role :tool :content "three" :timestamp "2026-01-31T09:05:03.000Z" :tool-call-id "tc_1" :name "bash" :is-error (:json "false") :entry-id "m3" :parent-id "m2")
(:role :assistant :content "four
 (:role :user :content nil)" :timestamp "2026-01-31T09:05:04.000Z" :entry-id "m4" :parent-id "c1" :message (:json "{\"stopReason\":\"stop\"}"))
 )
 :summarized 1
 :cwd "/home/me/code"
 :facts (:json "{\"title\":\"Files\"}")
 :entries (
(:after 1 :entry (:json "{\"type\":\"message\",\"id\":\"b2\",\"parentId\":\"m1\",\"timestamp\":\"2026-01-31T09:05:01.500Z\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"another branch\"}],\"timestamp\":1769850301500}}"))
(:after 3 :entry (:json "{\"type\":\"compaction\",\"id\":\"c1\",\"parentId\":\"m3\",\"timestamp\":\"2026-01-31T09:05:03.500Z\",\"summary\":\"They greeted.\",\"firstKeptEntryId\":\"m2\",\"tokensBefore\":9}"))
(:after 4 :entry (:json "{\"type\":\"custom\",\"id\":\"k1\",\"parentId\":\"m4\",\"timestamp\":\"2026-01-31T09:07:00.000Z\",\"customType\":\"perdure.commands\",\"data\":{\"count\":2}}"))
 )
)
