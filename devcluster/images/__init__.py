"""Resile's container images on a machine that has neither a registry of images nor a Docker engine.

`python -m devcluster.images` makes what deploy/Containerfile describes and pushes it to the
registry of the development cluster. buildah does the building, without a daemon. The one thing the
Containerfile asks for and this machine cannot pull, its base image, is made with debootstrap and
given the name that the Containerfile asks for, so that the same file builds here and elsewhere.

From the bottom: `recipe` (what goes in, and the keys that tell whether it changed) and
`pip_settings` are pure; `programs`, `buildah`, `base` and `registry` each talk to one thing
outside; `build` puts them in order.
"""
