"""Resile's container images on a machine that has neither a registry of images nor a Docker engine.

`python -m devcluster.images` builds the images of deploy/Containerfile and pushes them to the
registry of the development cluster. They are built by buildah, without a daemon. The base image of
the Containerfile, which this machine cannot pull, is built with debootstrap and tagged with the
name in the Containerfile, so that the same file builds here and elsewhere.

From the bottom: `recipe` (the inputs, and keys that detect changes of them) and `pip_settings` are
pure; `programs`, `buildah`, `base` and `registry` each wrap one external program or service;
`build` runs them in order.
"""
