(:role :user :content "one" :timestamp "2026-01-31T09:05:01.000Z" :entry-id "m1" :parent-id nil)
(:role :assistant :content "two" :timestamp "2026-01-31T09:05:02.000Z" :entry-id "m2" :parent-id "m1")
(:role :user :content "three" :timestamp "2026-01-31T09:05:03.000Z" :entry-id "m3" :parent-id "m2")
(:role :assistant :content "four" :timestamp "2026-01-31T09:05:04.000Z" :entry-id "m4" :parent-id "m3")
