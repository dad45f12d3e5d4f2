// SPDX-License-Identifier: Apache-2.0
//
// The functions that libpmix calls, on its own thread. Each copies its arguments and posts them to the service. As
// libpmix passes no argument of ours, a static pointer refers to the one service.
#pragma once

#include "flux.hpp"

namespace nacre::pmix {

class Service;

// Has to be called before the server starts; nullptr: requests are refused from then on.
void serve(Service* service);

pmix_server_module_t server_module();

// For Server::forget(): `process` is a pmix_proc_t on the heap.
void process_forgotten(pmix_status_t status, void* process);

// For Server::find_modex(): `question` is its number.
void modex_found(pmix_status_t status, char* data, std::size_t size, void* question);

// For Server::look_up_key().
void key_looked_up(pmix_status_t status, std::uintptr_t question);

// For PMIX_ERR_LOST_CONNECTION.
void lost_connection(std::size_t handler, pmix_status_t status, const pmix_proc_t* source, pmix_info_t info[],
                     std::size_t ninfo, pmix_info_t results[], std::size_t nresults,
                     pmix_event_notification_cbfunc_fn_t done, void* data);

}  // namespace nacre::pmix
