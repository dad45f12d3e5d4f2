/* SPDX-License-Identifier: Apache-2.0
 *
 * What every plugin needs: plugin handles and their arguments, and commands.
 */
#ifndef FLUX_CORE_H
#define FLUX_CORE_H

#include <flux/command.h>
#include <flux/plugin.h>
#include <flux/types.h>

#endif /* FLUX_CORE_H */
