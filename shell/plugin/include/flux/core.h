/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of libflux-core that plugins use.
 */
#ifndef FLUX_CORE_H
#define FLUX_CORE_H

#include <flux/broker.h>
#include <flux/command.h>
#include <flux/future.h>
#include <flux/handle.h>
#include <flux/hosts.h>
#include <flux/job.h>
#include <flux/message.h>
#include <flux/msglist.h>
#include <flux/plugin.h>
#include <flux/reactor.h>
#include <flux/rpc.h>
#include <flux/subprocess.h>
#include <flux/types.h>
#include <flux/version.h>

#endif /* FLUX_CORE_H */
