// SPDX-License-Identifier: Apache-2.0
//
// What the two libraries export, and nothing else: the functions of <pmi.h> and <pmi2.h>, whose prototypes are
// those of MPICH.
#ifndef NACRE_PMI_API_H
#define NACRE_PMI_API_H

#define API __attribute__((visibility("default")))

#endif
