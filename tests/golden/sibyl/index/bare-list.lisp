((:id "s1" :created-at "2025-02-20T14:30:22" :last-modified "2025-02-20T15:00:00" :message-count 9)
 (:ID "gone" :MESSAGE-COUNT 3))
