"""Lists and downloads files of the package index that pip is configured for, without running anything of them.

pip runs code of a source archive even to download it. This module only reads bytes, and compares their sha256 hash with a known one.
"""
import hashlib
import http.client
import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
TIMEOUT_SECONDS = 60


class IndexFailure(Exception):
    """A mistake or a missing file, in one line."""


def pip_setting(python, name):
    """A setting of pip, from its configuration files or its environment; empty if there is none."""
    if os.environ.get("PIP_" + name.upper().replace("-", "_")):
        return os.environ["PIP_" + name.upper().replace("-", "_")]
    for section in ("global", "download", "install"):
        done = subprocess.run([python, "-m", "pip", "config", "get", f"{section}.{name}"], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
    return ""


def index_url(python):
    found = pip_setting(python, "index-url")
    if not found:
        asked = subprocess.run([python, "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"],
                               capture_output=True, text=True)
        found = asked.stdout.strip()
    if not found:
        raise IndexFailure(f"the package index is unknown: {python} has no pip; set PIP_INDEX_URL")
    return found.rstrip("/")


class Index:
    """The index of a Python's pip."""

    def __init__(self, python):
        self.url = index_url(python)
        certificates = pip_setting(python, "cert")
        self.context = ssl.create_default_context(cafile=certificates or None)

    def open(self, url, accept="*/*"):
        try:
            request = urllib.request.Request(url, headers={"Accept": accept})
            return urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=self.context)
        except (urllib.error.URLError, OSError) as error:
            raise IndexFailure(f"cannot read {url}: {error}") from error

    def files(self, project):
        """The files of a project: their names, addresses, hashes."""
        page = f"{self.url}/{project.lower().replace('_', '-').replace('.', '-')}/"
        with self.open(page, JSON_TYPE) as answer:
            if answer.headers.get_content_type() != JSON_TYPE:
                raise IndexFailure(f"the index gives no JSON for {project}; set PIP_INDEX_URL to one that does")
            return json.load(answer)["files"]

    def download(self, project, name, sha256, to):
        """Downloads the file `name` of a project to the path `to`. Bytes with another hash leave no file."""
        for file in self.files(project):
            if file["filename"] == name:
                break
        else:
            raise IndexFailure(f"the index has no {name} of {project}")
        digest = hashlib.sha256()
        part = str(to) + ".part"
        try:
            address = urllib.parse.urljoin(f"{self.url}/{project}/", file["url"])
            with self.open(address) as source, open(part, "wb") as target:
                while block := source.read(1 << 20):
                    digest.update(block)
                    target.write(block)
            if digest.hexdigest() != sha256:
                raise IndexFailure(f"{name} has sha256 {digest.hexdigest()}; allowed: {sha256}")
            shutil.move(part, to)
        except (OSError, http.client.HTTPException) as error:
            raise IndexFailure(f"{name} of {project} is not downloaded: {error}") from error
        finally:
            if os.path.exists(part):
                os.remove(part)
