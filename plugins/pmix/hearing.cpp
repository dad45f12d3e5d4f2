// SPDX-License-Identifier: Apache-2.0
//
// What a shell makes of the words of all shells.
#include <utility>

#include "layout.hpp"
#include "peers.hpp"

namespace nacre::pmix {
namespace {

// libpmix answers at once what it has of a process that has ended, or never.
constexpr double kPatience = 1;  // second

// The same on all nodes.
std::uint64_t request_id(const Word& word) { return std::uint64_t{word.shell} << 40 | word.number; }

std::size_t texts_of(Word::Kind kind) {
  switch (kind) {
    case Word::Kind::part:
    case Word::Kind::publish:
    case Word::Kind::look_up:
    case Word::Kind::unpublish:
    case Word::Kind::event: return 2;
    case Word::Kind::answer:
    case Word::Kind::signal:
    case Word::Kind::ended: return 1;
    default: return 0;
  }
}

}  // namespace

void Peers::hear(const Word& word) {
  if (word.texts.size() < texts_of(word.kind)) return;
  switch (word.kind) {
    case Word::Kind::part: return collectives_.part(word.shell, word.texts[0], word.status, word.texts[1]);
    case Word::Kind::ask:
    case Word::Kind::answer: return hear_question(word);
    case Word::Kind::event: return hear_event(word);
    case Word::Kind::signal:
      return duties_.signal(ranks_in(word.texts[0]).value_or(std::vector<Rank>()), static_cast<int>(word.number));
    case Word::Kind::ended: return hear_of_end(word);
    case Word::Kind::over: return lost(word.shell);
    default: return hear_of_store(word);
  }
}

void Peers::hear_question(const Word& word) {
  if (word.to != home_.this_node) return;
  if (word.kind == Word::Kind::answer) return take(word.number).answer(word.status, word.texts[0]);
  std::uintptr_t question = ++last_question_;
  questions_[question] = {word.rank, word.shell, word.number};
  server_.find_modex(proc_of(home_.nspace, word.rank), question);
  if (ended_.count(word.rank) == 0) return;
  duties_.after(kPatience, [this, question] { found(question, PMIX_ERR_NOT_FOUND, {}); });
}

void Peers::hear_event(const Word& word) {
  if (word.shell == home_.this_node) return;
  pmix_proc_t source = proc_of(word.texts[0], word.rank);
  server_.notify(word.status, source, static_cast<pmix_data_range_t>(word.number),
                 InfoList::unpacked(word.texts[1]));
}

void Peers::hear_of_end(const Word& word) {
  if (word.rank == PMIX_RANK_WILDCARD) return store_.namespace_ended(word.texts[0]);
  store_.process_ended(proc_of(word.texts[0], word.rank));
  if (word.texts[0] != home_.nspace) return;
  ended_.insert(word.rank);
  collectives_.ended(word.rank);
}

void Peers::hear_of_store(const Word& word) {
  bool mine = word.shell == home_.this_node;
  if (word.kind == Word::Kind::give_up) return store_.give_up(request_id(word), PMIX_ERR_TIMEOUT);
  pmix_proc_t who = proc_of(word.texts[0], word.rank);
  InfoList info = InfoList::unpacked(word.texts[1]);
  std::vector<std::string> keys(word.texts.begin() + 2, word.texts.end());
  if (word.kind == Word::Kind::look_up) {
    auto answer = [this, mine, number = word.number](pmix_status_t status, std::vector<pmix_pdata_t>& values) {
      if (!mine) return;
      Request request = take(number);
      if (request.look_up != nullptr) request.look_up(status, values.data(), values.size(), request.data);
    };
    return store_.look_up(request_id(word), who, std::move(keys), info, answer);
  }
  pmix_status_t status = PMIX_SUCCESS;
  if (word.kind == Word::Kind::publish) status = store_.publish(who, info);
  if (word.kind == Word::Kind::unpublish) store_.unpublish(who, keys, info);
  if (mine) take(word.number).answer(status);
}

}  // namespace nacre::pmix
