#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make configure. Needs autoconf, automake, libtool, pkg-config.
cd "$(dirname "$0")" && exec autoreconf --install --force
