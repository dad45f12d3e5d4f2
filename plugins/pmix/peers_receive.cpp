// SPDX-License-Identifier: Apache-2.0
//
// How a shell handles the messages of all shells.
#include <utility>

#include "layout.hpp"
#include "peers.hpp"

namespace nacre::pmix {
namespace {

// It is the same on all nodes.
std::uint64_t request_id(const PeerMessage& message) { return std::uint64_t{message.shell} << 40 | message.number; }

std::size_t texts_of(PeerMessage::Kind kind) {
  switch (kind) {
    case PeerMessage::Kind::group: return 3;
    case PeerMessage::Kind::part:
    case PeerMessage::Kind::publish:
    case PeerMessage::Kind::look_up:
    case PeerMessage::Kind::unpublish:
    case PeerMessage::Kind::event: return 2;
    case PeerMessage::Kind::ask:
    case PeerMessage::Kind::answer:
    case PeerMessage::Kind::signal:
    case PeerMessage::Kind::leave:
    case PeerMessage::Kind::list:
    case PeerMessage::Kind::ended: return 1;
    default: return 0;
  }
}

}  // namespace

void Peers::receive(const PeerMessage& message) {
  if (message.texts.size() < texts_of(message.kind)) return;
  switch (message.kind) {
    case PeerMessage::Kind::part:
      return collectives_.part(message.shell, message.texts[0], message.status, message.texts[1]);
    case PeerMessage::Kind::ask:
    case PeerMessage::Kind::answer: return receive_question(message);
    case PeerMessage::Kind::event: return receive_event(message);
    case PeerMessage::Kind::signal: return receive_signal(message);
    case PeerMessage::Kind::ended: return receive_end(message);
    case PeerMessage::Kind::over: groups_.over(message.shell); return lost(message.shell);
    case PeerMessage::Kind::group:
    case PeerMessage::Kind::leave:
    case PeerMessage::Kind::gone: return groups_.receive(message);
    case PeerMessage::Kind::list:
    case PeerMessage::Kind::rows: return tables_.receive(message);
    default: return receive_of_store(message);
  }
}

void Peers::receive_question(const PeerMessage& message) {
  if (message.to != shells_.own) return;
  if (message.kind == PeerMessage::Kind::answer)
    return take(message.number).answer(message.status, message.texts[0]);
  const ProcessMap::Place* place = processes_.find(message.rank);
  if (place == nullptr) return;
  static std::uintptr_t last_question = 0;  // libpmix may answer what was asked in a former start
  std::uintptr_t question = ++last_question;
  questions_[question] = {message.rank, message.shell, message.number, message.texts[0], message.status > 0};
  const bool has_ended = ended_.count(message.rank) > 0;
  if (has_ended) give_up_after(kAnswerTime, question, PMIX_ERR_NOT_FOUND);
  if (message.status > 0) give_up_after(message.status, question, PMIX_ERR_TIMEOUT);
  if (has_ended || message.texts[0].empty()) return find_all(question);
  look_up(question);
}

void Peers::receive_signal(const PeerMessage& message) {
  std::vector<pmix_proc_t> targets;
  for (Rank number : ranks_in(message.texts[0]).value_or(std::vector<Rank>())) {
    const ProcessMap::Place* place = processes_.find(number);
    if (place != nullptr && place->node == shells_.own) targets.push_back(proc_of(*place->nspace, place->rank));
  }
  if (!targets.empty()) duties_.signal(targets, static_cast<int>(message.number));
}

void Peers::receive_event(const PeerMessage& message) {
  if (message.shell == shells_.own) return;
  pmix_proc_t source = proc_of(message.texts[0], message.rank);
  server_.notify(message.status, source, static_cast<pmix_data_range_t>(message.number),
                 InfoList::unpacked(message.texts[1]));
}

void Peers::receive_end(const PeerMessage& message) {
  if (message.rank == PMIX_RANK_WILDCARD) return left_by(message.shell, message.texts[0]);
  store_.process_ended(proc_of(message.texts[0], message.rank));
  std::optional<Rank> number = processes_.number_of(message.texts[0], message.rank);
  if (!number) return;
  ended_.insert(*number);
  collectives_.ended(*number);
  groups_.ended(*number);
}

void Peers::receive_of_store(const PeerMessage& message) {
  bool mine = message.shell == shells_.own;
  if (message.kind == PeerMessage::Kind::give_up) return store_.give_up(request_id(message), PMIX_ERR_TIMEOUT);
  pmix_proc_t id = proc_of(message.texts[0], message.rank);
  InfoList info = InfoList::unpacked(message.texts[1]);
  std::vector<std::string> keys(message.texts.begin() + 2, message.texts.end());
  if (message.kind == PeerMessage::Kind::look_up) {
    auto answer = [this, mine, number = message.number](pmix_status_t status, std::vector<pmix_pdata_t>& values) {
      if (!mine) return;
      Request request = take(number);
      if (request.look_up != nullptr) request.look_up(status, values.data(), values.size(), request.data);
    };
    return store_.look_up(request_id(message), id, std::move(keys), info, answer);
  }
  pmix_status_t status = PMIX_SUCCESS;
  if (message.kind == PeerMessage::Kind::publish) status = store_.publish(id, info);
  if (message.kind == PeerMessage::Kind::unpublish) store_.unpublish(id, keys, info);
  if (mine) take(message.number).answer(status);
}

}  // namespace nacre::pmix
