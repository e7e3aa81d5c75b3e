import { render } from "preact";
import { App } from "./app";
import { start } from "./state";
import "./style.css";

const place = document.getElementById("pellucid") ?? document.body.appendChild(document.createElement("div"));
render(<App />, place);
void start();
