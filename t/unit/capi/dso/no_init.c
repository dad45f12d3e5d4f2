/* SPDX-License-Identifier: Apache-2.0 */
int some_library_function(void);
int some_library_function(void) { return 1; }
