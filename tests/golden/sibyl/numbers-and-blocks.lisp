(:repl-session
 (:session-version 1)
 :id "s1"
 :created-at 3949050622
 :project "sibyl"
 :mood (("level" . 1.5d0) ("notes" "a" "b"))
 :messages
 ((:role :user
   :content ((("type" . "text") ("text" . "one")) (("type" . "image") ("data" . "aGk=") ("mimeType" . "image/png")))
   :timestamp 3949050625
   :seen t)
  (:role :assistant :content "two" :timestamp 3949050631 :thinking nil :tone :dry)))
