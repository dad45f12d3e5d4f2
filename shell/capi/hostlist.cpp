// SPDX-License-Identifier: Apache-2.0
//
// <flux/hostlist.h>: value::Hostlist for C.
#include <limits>

#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

// The manual has only this errno for too much of anything.
int documented(int code) { return code == E2BIG ? ERANGE : code; }

int as_int(std::uint64_t count) { return static_cast<int>(count); }  // a list has at most kMaxHosts names

// The name at the cursor.
const char* current(struct hostlist* hl) {
  auto name = hl->names.nth(hl->cursor);
  if (!name) return none(ENOENT);
  hl->name = std::move(*name);
  return hl->name.c_str();
}

const char* move_to(struct hostlist* hl, std::uint64_t position) {
  if (position >= hl->names.size()) return none(ENOENT);
  hl->cursor = position;
  hl->is_removed = false;
  return current(hl);
}

int append(struct hostlist* hl, const value::Hostlist& more) {
  if (more.size() > value::Hostlist::kMaxHosts - hl->names.size()) return fail(ERANGE);
  hl->names.append(more);
  return as_int(more.size());
}

}  // namespace

struct hostlist* hostlist_create(void) noexcept {
  return std::make_unique<hostlist>().release();
}

struct hostlist* hostlist_decode(const char* s) noexcept {
  if (s == nullptr) return none(EINVAL);
  Result<value::Hostlist> names = value::Hostlist::parse(s);
  if (!names) return none(documented(names.error().code));
  auto out = std::make_unique<hostlist>();
  out->names = std::move(*names);
  return out.release();
}

struct hostlist* hostlist_copy(const struct hostlist* hl) noexcept {
  if (hl == nullptr) return none(EINVAL);
  auto out = std::make_unique<hostlist>();
  out->names = hl->names;
  return out.release();
}

void hostlist_destroy(struct hostlist* hl) noexcept {
  int code = errno;
  delete hl;
  errno = code;
}

char* hostlist_encode(struct hostlist* hl) noexcept {
  if (hl == nullptr) return none(EINVAL);
  char* text = c_string(hl->names.str());
  return text != nullptr ? text : none(ENOMEM);
}

int hostlist_count(struct hostlist* hl) noexcept { return hl != nullptr ? as_int(hl->names.size()) : 0; }

int hostlist_append(struct hostlist* hl, const char* hosts) noexcept {
  if (hl == nullptr) return fail(EINVAL);
  if (hosts == nullptr) return 0;
  Result<value::Hostlist> more = value::Hostlist::parse(hosts);
  return more ? append(hl, *more) : fail(documented(more.error().code));
}

int hostlist_append_list(struct hostlist* hl1, struct hostlist* hl2) noexcept {
  if (hl1 == nullptr || hl2 == nullptr) return fail(EINVAL);
  value::Hostlist more = hl2->names;  // a copy, as the two lists may be one
  return append(hl1, more);
}

int hostlist_delete(struct hostlist* hl, const char* hosts) noexcept {
  if (hl == nullptr || hosts == nullptr) return fail(EINVAL);
  Result<value::Hostlist> doomed = value::Hostlist::parse(hosts);
  if (!doomed) return fail(documented(doomed.error().code));
  // The cursor stays at its name, or moves to the next one that is left; removing a name before it moves it too.
  std::uint64_t before = hl->cursor;
  value::Hostlist head = hl->names.part(0, before);
  std::uint64_t gone_before = head.remove(*doomed);
  std::uint64_t gone = hl->names.remove(*doomed);
  hl->cursor = before - gone_before;
  return as_int(gone);
}

const char* hostlist_nth(struct hostlist* hl, int n) noexcept {
  if (hl == nullptr || n < 0) return none(EINVAL);
  return move_to(hl, static_cast<std::uint64_t>(n));
}

int hostlist_find(struct hostlist* hl, const char* hostname) noexcept {
  if (hl == nullptr || hostname == nullptr) return fail(EINVAL);
  auto position = hl->names.find(hostname);
  if (!position) return fail(ENOENT);
  hl->cursor = *position;
  hl->is_removed = false;
  return as_int(*position);
}

struct hostlist_hostname* hostlist_hostname_create(const char* hostname) noexcept {
  if (hostname == nullptr) return none(EINVAL);
  return new hostlist_hostname{hostname};
}

void hostlist_hostname_destroy(struct hostlist_hostname* hn) noexcept {
  int code = errno;
  delete hn;
  errno = code;
}

int hostlist_find_hostname(struct hostlist* hl, struct hostlist_hostname* hn) noexcept {
  return hn != nullptr ? hostlist_find(hl, hn->name.c_str()) : fail(EINVAL);
}

void hostlist_sort(struct hostlist* hl) noexcept {
  if (hl == nullptr) return;
  hl->names.sort();
  hl->cursor = 0;
  hl->is_removed = false;
}

void hostlist_uniq(struct hostlist* hl) noexcept {
  if (hl == nullptr) return;
  hl->names.uniq();
  hl->cursor = 0;
  hl->is_removed = false;
}

const char* hostlist_first(struct hostlist* hl) noexcept { return hl != nullptr ? move_to(hl, 0) : none(EINVAL); }

const char* hostlist_last(struct hostlist* hl) noexcept {
  if (hl == nullptr) return none(EINVAL);
  return hl->names.empty() ? none(ENOENT) : move_to(hl, hl->names.size() - 1);
}

const char* hostlist_next(struct hostlist* hl) noexcept {
  if (hl == nullptr) return none(EINVAL);
  if (!std::exchange(hl->is_removed, false) && hl->cursor < hl->names.size()) ++hl->cursor;
  return current(hl);
}

const char* hostlist_current(struct hostlist* hl) noexcept { return hl != nullptr ? current(hl) : none(EINVAL); }

int hostlist_remove_current(struct hostlist* hl) noexcept {
  if (hl == nullptr) return fail(EINVAL);
  if (hl->cursor >= hl->names.size()) return 0;
  value::Hostlist left = hl->names.part(0, hl->cursor);
  left.append(hl->names.part(hl->cursor + 1, hl->names.size() - hl->cursor - 1));
  hl->names = std::move(left);
  hl->is_removed = true;
  return 1;
}

const struct hostlist* flux_shell_get_hostlist(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  if (shell->hosts.names.empty()) {
    for (const job::NodeResources& node : shell->host.job().resources.nodes)
      shell->hosts.names.append(node.hostname);
  }
  return &shell->hosts;
}
