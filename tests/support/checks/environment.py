"""What user code and libraries find around them: kernel objects, modules, process facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.features import feature

if TYPE_CHECKING:
    from tests.support.kernels import Kernel


@feature()
def check_main_module(kernel: Kernel) -> None:
    stdout = kernel.run(
        """
        import sys, pickle, inspect
        class Mine:
            def method(self): return "source"
        print(__name__, "__file__" in globals(), sys.modules["__main__"].Mine is Mine,
              type(pickle.loads(pickle.dumps(Mine()))) is Mine, sys.path[0] == "" or "" in sys.path)
        print(inspect.getsource(Mine.method).strip())
        """
    )
    assert stdout == ('__main__ False True True True\ndef method(self): return "source"\n')


@feature()
def check_process_facts(kernel: Kernel) -> None:
    facts = json.loads(
        kernel.run(
            """
            import json, locale, os, resource, signal, sys, threading
            print(json.dumps({
                "cwd": os.getcwd(),
                "executable": sys.executable,
                "main": threading.current_thread() is threading.main_thread(),
                "switch": sys.getswitchinterval(),
                "recursion": sys.getrecursionlimit(),
                "hook": sys.excepthook.__name__ if hasattr(sys.excepthook, "__name__") else "",
                "term": os.environ["TERM"], "pager": os.environ["PAGER"],
                "color": os.environ["CLICOLOR"],
                "score": open("/proc/self/oom_score_adj").read().strip(),
                "default": [s.name for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD,
                                             signal.SIGUSR1, signal.SIGALRM)
                            if signal.getsignal(s) != signal.SIG_DFL],
                "masked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            }))
            """
        )
    )
    assert facts["cwd"] == str(kernel.cwd)
    assert facts["main"] is True
    assert (facts["term"], facts["pager"], facts["color"]) == ("xterm-color", "cat", "1")
    assert (facts["default"], facts["masked"]) == ([], [])
    assert facts["recursion"] >= 1000
    assert facts["score"] == "0"


@feature()
def check_imports_of_local_modules(kernel: Kernel) -> None:
    (kernel.cwd / "local_module.py").write_text("value = 'local'\n")
    assert kernel.run("import local_module\nprint(local_module.value)") == "local\n"


@feature()
def check_kernel_attributes(kernel: Kernel) -> None:
    """What extensions reach through `get_ipython().kernel`."""
    stdout = kernel.run(
        """
        from ipykernel.ipkernel import IPythonKernel
        from ipykernel.kernelapp import IPKernelApp
        from ipykernel.zmqshell import ZMQInteractiveShell
        shell = get_ipython()
        kernel = shell.kernel
        print(isinstance(shell, ZMQInteractiveShell), isinstance(kernel, IPythonKernel),
              kernel.shell is shell, kernel.comm_manager is not None,
              IPKernelApp.initialized(), IPKernelApp.instance().kernel is kernel,
              shell.parent is kernel, shell.user_ns is globals())
        print(kernel.implementation, kernel.language_info["name"], type(kernel.session).__name__,
              type(kernel.log).__name__, type(kernel.ident).__name__)
        parent = kernel.get_parent()
        print(parent["header"]["msg_type"], parent["content"]["code"].startswith("from ipykernel"),
              shell.get_parent() == parent)
        """
    )
    assert stdout.splitlines() == [
        "True True True True True True True True",
        "ipython python Session Logger str",
        "execute_request True True",
    ]


@feature()
def check_messages_sent_by_user_code(kernel: Kernel) -> None:
    outcome = kernel.execute(
        """
        kernel = get_ipython().kernel
        kernel.send_response(kernel.iopub_socket, "stream", {"name": "stdout", "text": "sent"})
        kernel.session.send(kernel.iopub_socket, "display_data",
            {"data": {"text/plain": "direct"}, "metadata": {}, "transient": {}},
            parent=kernel.get_parent(), ident=b"display_data");
        """
    ).ok()
    assert outcome.stdout == "sent"
    (shown,) = outcome.displays
    assert shown.content["data"] == {"text/plain": "direct"}


@feature()
def check_connection_facts(kernel: Kernel) -> None:
    stdout = kernel.run(
        """
        import json, ipykernel.connect
        info = json.loads(ipykernel.connect.get_connection_info())
        print(json.dumps([info, ipykernel.connect.get_connection_file()]))
        """
    )
    info, path = json.loads(stdout)
    key = kernel.manager.session.key.decode()
    assert path == kernel.manager.connection_file
    assert info["key"] == key
    assert info["shell_port"] == kernel.manager.shell_port
    assert key in kernel.run("%connect_info")


@feature()
def check_configuration(kernel: Kernel) -> None:
    """The first line is how libraries tell a notebook from a terminal."""
    assert kernel.run("print('IPKernelApp' in get_ipython().config)") == "True\n"
    assert kernel.run("print(get_ipython().config['IPKernelApp']['connection_file'])") == (
        f"{kernel.manager.connection_file}\n"
    )
    kernel.run("%config InteractiveShell.ast_node_interactivity = 'all'")
    outcome = kernel.execute("1\n2").ok()
    assert [m.content["data"]["text/plain"] for m in outcome.of_type("execute_result")] == [
        "1",
        "2",
    ]
    kernel.run("%config InteractiveShell.ast_node_interactivity = 'last_expr'")


@feature(own_kernel=True)
def check_profile_startup_files(kernel: Kernel) -> None:
    profile = kernel.folder / "ipython" / "profile_default"
    (profile / "startup").mkdir(parents=True, exist_ok=True)
    (profile / "startup" / "00-first.py").write_text("from_startup = 'started'\n")
    (profile / "ipython_kernel_config.py").write_text(
        "c.InteractiveShellApp.exec_lines = ['from_config = 1']\n"
    )
    kernel.restart()
    assert kernel.run("print(from_startup, from_config)") == "started 1\n"


@feature()
def check_programs_inherit_only_standard_streams(kernel: Kernel) -> None:
    """A program started by the user gets its three standard streams and nothing of ours."""
    stdout = kernel.run(
        """
        import subprocess
        names = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True).stdout
        print(len(names.split()))
        """
    )
    assert stdout == "4\n"
