# SPDX-License-Identifier: Apache-2.0
"""The parts of t/kit/flux_broker, which stands in for an instance of Flux."""
