// SPDX-License-Identifier: Apache-2.0
//
// Records on their way to the leader, and the acknowledgements on their way back: those of this shell, which are
// kept until the leader has taken them, and those of the shells below, which it passes on or, as the leader,
// delivers to its owner.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "bulk/child.hpp"
#include "bulk/effect.hpp"
#include "bulk/options.hpp"
#include "bulk/origin_table.hpp"
#include "bulk/unacked_records.hpp"
#include "bulk/wire.hpp"

namespace nacre::bulk {

class UpwardRecords {
 public:
  // All have to outlive it. Records from below wait in the queues of `children`.
  UpwardRecords(const BulkOptions& options, BulkChildren& children, BulkOutbox& out)
      : options_(options),
        children_(children),
        out_(out),
        unacked_(options.self),
        origins_(options.limits.origins) {}

  // As those of BulkNode.
  Result<bool> put(Channel channel, std::string_view bytes);
  Result<void> end(Channel channel);
  void taken(Id origin, Numbered number);
  bool waited();  // false: no answers wait

  Result<void> take(Id peer, BulkChild& child, const BulkRecord& record);  // from below
  Result<void> take_note(const Taken& note);                               // from above
  void new_path();  // a link above is new, and what was under way may be lost
  // Appends the records that are to go up now.
  void send(std::string& out);

  [[nodiscard]] std::size_t bytes() const { return unacked_.bytes(); }  // of this shell's records, with heads

 private:
  void add(Channel channel, std::string_view bytes);
  Result<void> own_taken(Numbered number);
  void note_taken(Id origin, Numbered number);
  bool deliver(OriginTable::Route from, const BulkRecord& record);
  [[nodiscard]] bool is_answer(BulkKind kind, Channel channel) const {
    return kind == BulkKind::data && options_.answers.contains(channel);
  }
  [[nodiscard]] std::size_t most_unnoted() const;
  [[nodiscard]] bool has_some_to_send() const;
  [[nodiscard]] bool waits_for_answers() const;
  bool send_next(std::string& out);

  const BulkOptions& options_;
  BulkChildren& children_;
  BulkOutbox& out_;
  UnackedRecords unacked_;
  OriginTable origins_;
  std::optional<Id> last_;  // the origin whose record went up last; none: this shell's
  std::size_t wants_ = 0;   // bytes that put() has refused
  bool dirty_ = false;      // a record from below was sent up since the way was new
  // Of answers that are to be sent:
  bool waits_ = false;  // they wait for others
  bool go_ = false;     // they do not wait, or no more
};

}  // namespace nacre::bulk
